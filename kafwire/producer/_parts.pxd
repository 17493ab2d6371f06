"""Records of one batch go on in others: in parts of it, or where they belong since their topic was made anew."""
from kafwire.producer._batch cimport ProducerBatch
from kafwire.producer._queues cimport Queues


cdef list cut_batch(Queues queues, ProducerBatch batch, list starts, refused)
cdef list place_batch_again(Queues queues, ProducerBatch batch)

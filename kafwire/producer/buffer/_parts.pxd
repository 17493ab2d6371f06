"""Continues the records of one batch in other batches: parts of it, or batches of a recreated topic."""
from kafwire.producer.buffer._batch cimport ProducerBatch
from kafwire.producer.buffer._queues cimport Queues


cdef list cut_batch(Queues queues, ProducerBatch batch, list starts, refused)
cdef list place_batch_again(Queues queues, ProducerBatch batch)

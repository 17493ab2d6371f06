"""InitProducerId (22)"""

from kafwire import protocol


def handle(state, request):
    return protocol.InitProducerIdResponse(producer_id=next(state.producer_ids), producer_epoch=0)

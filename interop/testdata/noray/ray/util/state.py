def list_nodes(*_, **__):
    raise RuntimeError("Ray is left out")

"""Where the scalars of an iteration go: a JSON-lines file, TensorBoard, the terminal.
May use tensorboard (through Torch) and rich; each sink opens its file with the first row.
"""

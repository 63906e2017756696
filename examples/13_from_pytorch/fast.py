"""The same layer on the compiled recurrence. Its parameters are those of Memory."""
from kernels.memory import memory
from loop import Memory


class FastMemory(Memory):
    def recurrence(self, *operands):
        return memory(*operands).y

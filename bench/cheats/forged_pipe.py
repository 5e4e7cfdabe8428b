"""Takes over the conversation with laptime's process, sends windows that never were, and ends with `_exit(0)`.

Met: gpu-mode/pygpubench's exploits, which forged the result pipe. From its 60th step on, it answers each turn with a
window of half the time, which it sleeps, and with losses as they were.
Refused by: a message that its turn cannot have, the replay of a timed window, and turns by the judge's own clock.
"""

import os
import time

from shared import LATER, Losing, find_object, train

from laptime import wire
from laptime.model.quantities import Missing
from laptime.model.sample import SeenBatch, Window

NAMES = ("changed laptime", "hidden time", "knows the judge")


def forge(step_ns, loss, taken):
    """Answer all that laptime asks for, and end."""
    line = find_object("Lifeline")
    while True:
        now_ns = time.perf_counter_ns()
        line.say(wire.Ready(steps=taken))
        match line.listen():
            case wire.TakeTurn(steps=steps, after=after):
                first = (taken if after is None else max(after, taken)) + 1
                time.sleep((steps + first - taken) * step_ns / 2e9)
                end_ns = time.perf_counter_ns()
                start_ns = end_ns - steps * step_ns // 2
                seen = SeenBatch(512, f"{first:012x}")
                window = Window(
                    start_ns, max(end_ns, now_ns), steps, first_step=first, updates=1.0, rate=1.0, seen=seen
                )
                line.say(wire.Closed(window, loss))
                taken = first + steps - 1
            case _:
                line.say(wire.Finished(400 << 20, Missing("a processor")))
                os._exit(0)


class Forging(Losing):
    calls, began_ns = 0, 0

    def forward(self, rows, labels):
        self.calls += 1
        loss = self.lose(rows, labels)
        if self.calls == LATER // 2:
            self.began_ns = time.perf_counter_ns()
        frame_order = find_object("HeatOrder")
        if self.calls == LATER and frame_order is not None and find_object("CountedRunner") is not None:
            forge((time.perf_counter_ns() - self.began_ns) // (LATER // 2), float(loss), self.calls - 1)
        return loss


class Talking(Losing):
    """Writes to a pipe of its own in each step."""

    def forward(self, rows, labels):
        own_read, own_write = os.pipe()
        os.write(own_write, b"a step\n")
        os.close(own_write)
        os.close(own_read)
        return self.lose(rows, labels)


def base():
    return train(Losing())


def cheat():
    return train(Forging())


def honest():
    return train(Talking())

"""Takes over the conversation with laptime's process, sends windows that never were, and ends with `_exit(0)`.

Met: gpu-mode/pygpubench's exploits, which forged the result pipe. From its 60th step on, it answers each turn with a
window of half the time, which it sleeps, and with losses as they were.
Refused by: a message that its turn cannot have, the replay of a timed window, and turns by the judge's own clock.
"""

import os
import time

from shared import BATCH, BATCHES, LATER, Losing, find_frame, find_object, make_batches, train

from laptime.engine import wire
from laptime.engine.backends.steps import see_batch
from laptime.model.quantities import Missing
from laptime.model.sample import Window

NAMES = ("changed laptime", "hidden time", "knows the judge")


def forge(first, steps, step_ns, loss):
    """Close the window that is open, answer each turn with another, and end."""
    line, batches, sleep_ns = find_object("Lifeline"), make_batches(), steps * step_ns // 2
    while True:
        time.sleep(sleep_ns / 1e9)
        end_ns = time.perf_counter_ns()
        seen = see_batch(batches[(first + steps - 2) % BATCHES], BATCH)
        begun_ns = end_ns - steps * step_ns // 2
        line.say(wire.Closed(Window(begun_ns, end_ns, steps, first_step=first, updates=1.0, rate=1.0, seen=seen), loss))
        taken = first + steps - 1
        line.say(wire.Ready(steps=taken))
        order = line.listen()
        if not isinstance(order, wire.TakeTurn):
            line.say(wire.Finished(400 << 20, Missing("a processor")))
            os._exit(0)
        first, steps = max(order.after or taken, taken) + 1, order.steps or steps
        sleep_ns = (first - 1 - taken + steps) * step_ns // 2


class Forging(Losing):
    calls, began_ns = 0, 0

    def forward(self, rows, labels):
        self.calls += 1
        loss = self.lose(rows, labels)
        if self.calls == LATER // 2:
            self.began_ns = time.perf_counter_ns()
        window = find_frame("_run_window")
        if self.calls > LATER and window is not None:
            step_ns = (time.perf_counter_ns() - self.began_ns) // (self.calls - LATER // 2)
            forge(window.f_locals["first_step"], window.f_locals["steps"], step_ns, float(loss))
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

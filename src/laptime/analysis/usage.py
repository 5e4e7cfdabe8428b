"""A lane's heats, with what the instruments read meanwhile -> what it took of the machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from laptime.analysis.across import middle
from laptime.analysis.energy import METER, WATTS, Power, find_power, make_energy, mean_power, pooled_power
from laptime.analysis.heats import steady_windows
from laptime.analysis.readings import Pair, Span, growth_per_s, mean_of, most_of, slope_per_min, within
from laptime.model.machine import Device
from laptime.model.missing import Missing
from laptime.model.record import HeatResult
from laptime.model.timeline import Timeline
from laptime.model.usage import Energy, Usage

HOST, HEAT = "host", "heat"
PACKAGE, PROCESSOR = "package-", "the processor"
Reading = Callable[[Timeline, Span], "float | Missing"]


def summarise_usage(
    heats: Sequence[HeatResult], device: Device, cores: int, lap_s: float | None, items_per_s: float | None
) -> Usage | None:
    """Give what the finished heats took; nothing where no heat was watched."""
    timed = [heat for heat in heats if heat.status == "ok" and heat.windows]
    pairs = [(heat.timeline, span_of(heat)) for heat in timed if heat.timeline is not None]
    if not pairs:
        return None
    card = card_of(device, pairs[0][0])
    energy = make_energy(card or _words(device), _power(pairs, device, card), lap_s, items_per_s)
    return describe_usage(pairs, device, cores, energy)


def describe_usage(
    pairs: Sequence[Pair], device: Device, cores: int, energy: Energy, warming: Sequence[Pair] = ()
) -> Usage:
    """Give what was taken within some spans; `warming` are longer ones, over which a temperature's slope is told."""
    card = card_of(device, pairs[0][0])
    hot = card or (HOST if device.kind == "cpu" else device.name)
    usual, most = _median(pairs), _most(pairs)
    return Usage(
        processor_percent=usual(lambda line, span: _share(_growth(line, HEAT, "busy_s", span), cores)),
        others_percent=usual(lambda line, span: _others(line, span, cores)),
        memory_most_bytes=most(lambda line, span: most_of(within(line, HEAT, "resident_bytes", span))),
        device_percent=usual(_gauge(card, "busy_percent")),
        active_percent=usual(_gauge(card, "sm_active_percent")),
        device_memory_most_bytes=most(
            lambda line, span: most_of(within(line, card or HOST, "memory_used_bytes", span)) if card else NO_CARD
        ),
        temperature_of=hot,
        temperature_most_c=most(lambda line, span: most_of(within(line, hot, "temperature_c", span))),
        temperature_slope_c_per_min=_median(warming or pairs)(
            lambda line, span: slope_per_min(within(line, hot, "temperature_c", span))
        ),
        power_most_w=most(lambda line, span: _most_power(line, card, span)),
        energy=energy,
    )


def power_of(pairs: Sequence[Pair], device: Device) -> tuple[str, Power | Missing]:
    """Name the device whose power it is, and give its mean over all spans together."""
    card = card_of(device, pairs[0][0])
    metered = _metered(pairs[0][0], device, card)
    return card or _words(device), metered if isinstance(metered, Missing) else pooled_power(pairs, metered)


NO_CARD = Missing("this lane computes on the processor")


def span_of(heat: HeatResult) -> Span:
    windows = steady_windows(heat)
    return Span(windows[0].start_ns / 1e9, windows[-1].end_ns / 1e9)


def card_of(device: Device, timeline: Timeline) -> str | None:
    """Give the instruments' name of the lane's card, where one was watched."""
    if device.kind == "cpu":
        return None
    named = [each.channel.device for track in timeline.tracks for each in track.series]
    named += [channel.device for track in timeline.tracks for channel, _ in track.absent]
    cards = [name for name in dict.fromkeys(named) if name not in {HOST, HEAT} and not name.startswith(PACKAGE)]
    return cards[0] if len(cards) == 1 else None


def _words(device: Device) -> str:
    return PROCESSOR if device.kind == "cpu" else device.name


def _power(pairs: Sequence[Pair], device: Device, card: str | None) -> Power | Missing:
    """Give the middle of the spans' powers."""
    metered = _metered(pairs[0][0], device, card)
    if isinstance(metered, Missing):
        return metered
    told = [mean_power(line, metered, span) for line, span in pairs]
    known = [each for each in told if isinstance(each, Power)]
    if not known:
        return next(each for each in told if isinstance(each, Missing))
    watts = middle(each.watts for each in known)
    assert watts is not None
    return Power(watts, "counted" if all(each.how == "counted" for each in known) else "estimated")


def _metered(timeline: Timeline, device: Device, card: str | None) -> list[str] | Missing:
    """Name what has a lane's meters: a processor's tell nothing of a card that nobody watched."""
    if card is None and device.kind != "cpu":
        return timeline.why_not(device.name, METER)
    return [card] if card else _packages(timeline)


def _packages(timeline: Timeline) -> list[str]:
    """Give the processor's packages that have a meter; what lies within one (cores, memory) is counted in it."""
    named = (each.channel.device for track in timeline.tracks for each in track.series)
    return [name for name in dict.fromkeys(named) if name.startswith(PACKAGE)]


def _median(pairs: Sequence[Pair]) -> Callable[[Reading], float | Missing]:
    def over(reading: Reading) -> float | Missing:
        told = [reading(timeline, span) for timeline, span in pairs]
        known = middle(None if isinstance(each, Missing) else each for each in told)
        return _reason(told) if known is None else known

    return over


def _most(pairs: Sequence[Pair]) -> Callable[[Reading], float | Missing]:
    def over(reading: Reading) -> float | Missing:
        told = [reading(timeline, span) for timeline, span in pairs]
        known = [each for each in told if not isinstance(each, Missing)]
        return max(known) if known else _reason(told)

    return over


def _reason(told: Sequence[float | Missing]) -> Missing:
    return next(each for each in told if isinstance(each, Missing))


def _growth(timeline: Timeline, device: str, name: str, span: Span) -> float | Missing:
    return growth_per_s(within(timeline, device, name, span))


def _share(cores_busy: float | Missing, cores: int) -> float | Missing:
    return cores_busy if isinstance(cores_busy, Missing) else 100 * cores_busy / cores


def _others(timeline: Timeline, span: Span, cores: int) -> float | Missing:
    """Hold what others took against all cores of the machine: a container may have been given a few of them."""
    all_, own = _growth(timeline, HOST, "busy_s", span), _growth(timeline, HEAT, "busy_s", span)
    if isinstance(all_, Missing) or isinstance(own, Missing):
        return all_ if isinstance(all_, Missing) else own
    online = mean_of(within(timeline, HOST, "cores_online", span))
    return max(0.0, 100 * (all_ - own) / (cores if isinstance(online, Missing) else online))


def _gauge(card: str | None, name: str) -> Reading:
    if card is None:
        return lambda _line, _span: NO_CARD
    return lambda line, span: mean_of(within(line, card, name, span))


def _most_power(timeline: Timeline, card: str | None, span: Span) -> float | Missing:
    if card is None:
        return Missing("a processor's meter tells energy, and no power of a moment")
    shown = find_power((timeline,), card)
    if shown is None:
        return timeline.why_not(card, METER)
    told = most_of(within(timeline, card, shown.name, span))
    return told if isinstance(told, Missing) else WATTS[shown.unit] * told

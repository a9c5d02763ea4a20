"""The timing contract's rules about chunks and batches: slots, committed rows, policy versions, hot and cold batch.

Written as those of ``domain.timing_rules``.
"""

from collections.abc import Iterator

from domain.replay.slots import CHUNKS
from domain.timing import HostPhase, TickTrace
from domain.timing_rules import CLOCK_SLACK_S, Past, Rule, microseconds, phase

_BATCHES = (0, 1)


def slot_reuse(now: TickTrace, past: Past) -> Iterator[str]:
    """A slot is granted again only after its last chunk was copied and the slot freed."""
    if not 0 <= now.slot < CHUNKS:
        yield f"slot {now.slot} is granted, there are {CHUNKS}"
    if now.slot in past.granted:
        yield f"slot {now.slot} is granted, and the chunk of tick {past.granted[now.slot]} is still in it"
        return
    grant, freed = phase(now, HostPhase.GRANT), past.freed.get(now.slot)
    if grant is not None and freed is not None and not freed <= grant[0]:
        yield f"slot {now.slot} is granted {microseconds(freed - grant[0])} before it is freed"


def slot_event(now: TickTrace, past: Past) -> Iterator[str]:
    """A slot is freed only after its copy's event, which is seen only after the copy's end."""
    ingest = now.ingest
    if ingest is None:
        return
    if not ingest.copied_at >= ingest.copy[1] - CLOCK_SLACK_S:
        yield f"the copy is seen done {microseconds(ingest.copy[1] - ingest.copied_at)} before it ends"
    if not ingest.freed_at >= ingest.copied_at:
        early = microseconds(ingest.copied_at - ingest.freed_at)
        yield f"slot {ingest.slot} is freed {early} before its copy is seen done"


def commit_after_copy(now: TickTrace, past: Past) -> Iterator[str]:
    """The chunk is written to the ring, and the committed pointer moves, only after the copy's event."""
    ingest = now.ingest
    if ingest is None:
        return
    if not ingest.committed_at >= ingest.copied_at:
        early = microseconds(ingest.copied_at - ingest.committed_at)
        yield f"the committed pointer moves {early} before the copy is seen done"
    if not ingest.commit[0] >= ingest.copy[1]:
        yield f"the commit begins {microseconds(ingest.copy[1] - ingest.commit[0])} before the copy ends"


def committed_rows(now: TickTrace, past: Past) -> Iterator[str]:
    """The committed pointer moves by exactly the chunk's rows, never backwards."""
    ingest = now.ingest
    if ingest is None:
        return
    if ingest.rows not in (0, past.header.num_envs):
        yield f"a chunk of {ingest.rows} rows, neither 0 nor the {past.header.num_envs} environments"
    before = 0 if past.ingest is None else past.ingest.committed
    if ingest.committed != before + ingest.rows:
        yield f"committed rows go from {before} to {ingest.committed} by a chunk of {ingest.rows}"


def chunk_once(now: TickTrace, past: Past) -> Iterator[str]:
    """Each chunk is taken in exactly once, in order, in the tick after the one that collected it."""
    ingest = now.ingest
    if past.tick is None:
        if ingest is not None:
            yield f"the first tick takes in a chunk, of tick {ingest.tick}"
        return
    if ingest is None:
        yield f"the chunk of tick {past.tick.tick} is not taken in"
        return
    if ingest.tick != past.tick.tick:
        yield f"the chunk of tick {ingest.tick} is taken in, that of tick {past.tick.tick} is due"
    elif ingest.slot != past.tick.slot:
        yield f"the chunk of tick {ingest.tick} comes from slot {ingest.slot}, slot {past.tick.slot} was granted"
    due = 0 if past.ingest is None else past.ingest.sequence + 1
    if ingest.sequence != due:
        yield f"chunk {ingest.sequence} is taken in, chunk {due} is due"


def policy_version(now: TickTrace, past: Past) -> Iterator[str]:
    """A tick has one policy version, the complete update cycles before it; its chunk has the same."""
    due = past.header.first_version + past.cycles
    if now.policy_version != due:
        yield f"policy version {now.policy_version} after {due} complete cycles"
    ingest = now.ingest
    if ingest is not None and past.tick is not None and ingest.policy_version != past.tick.policy_version:
        yield (
            f"a chunk of policy version {ingest.policy_version} from tick {past.tick.tick}, "
            f"whose actor had version {past.tick.policy_version}"
        )


def batch_origin(now: TickTrace, past: Past) -> Iterator[str]:
    """The batch of a window was gathered in the window before, and none is left unused."""
    gathered = None if past.tick is None or past.tick.ingest is None else past.tick.ingest.batch
    update = now.update
    if update is None:
        if gathered is not None:
            yield f"batch {gathered} was gathered in the tick before, and no update uses it"
        return
    if update.gathered_in != now.tick - 1:
        yield f"batch {update.batch} was gathered in tick {update.gathered_in}, tick {now.tick - 1} is due"
    if gathered != update.batch:
        had = "none" if gathered is None else f"batch {gathered}"
        yield f"updates use batch {update.batch}, and the window before gathered {had}"


def batch_rows(now: TickTrace, past: Past) -> Iterator[str]:
    """A batch is sampled from exactly the chunks up to the tick before the window that gathers it."""
    if now.update is not None and now.update.committed != past.rows:
        yield (
            f"batch {now.update.batch} was sampled from {now.update.committed} committed rows, the chunks up to tick "
            f"{now.tick - 2} have {past.rows}"
        )


def hot_and_cold(now: TickTrace, past: Past) -> Iterator[str]:
    """The two batches alternate: none is filled while it is read, or read before it is filled."""
    update, ingest = now.update, now.ingest
    filled = None if ingest is None else ingest.batch
    for what, batch in (("read", None if update is None else update.batch), ("filled", filled)):
        if batch is not None and batch not in _BATCHES:
            yield f"batch {batch} is {what}, there are 0 and 1"
    if update is not None and past.update is not None and update.batch == past.update.batch:
        yield f"batch {update.batch} is read twice in a row"
    if update is not None and update.batch == filled:
        yield f"batch {update.batch} is filled in the window that reads it"
    if update is not None and past.ingest is not None and not past.ingest.commit[1] <= update.device[0]:
        early = microseconds(past.ingest.commit[1] - update.device[0])
        yield f"updates begin {early} before batch {update.batch} is gathered"
    if ingest is not None and filled is not None and past.update is not None:
        late = past.update.device[1] - ingest.commit[0]
        if past.update.batch == filled and not late <= 0.0:
            yield f"batch {filled} is being filled {microseconds(late)} before its reader ends"


def learning_start(now: TickTrace, past: Past) -> Iterator[str]:
    """Nothing is gathered before ``learning_start`` rows are committed."""
    if now.ingest is not None and now.ingest.batch is not None:
        rows = past.rows + now.ingest.rows
        if rows < past.header.learning_start:
            yield f"a batch is gathered with {rows} rows, learning starts at {past.header.learning_start}"


CHUNK_RULES: dict[str, Rule] = {
    "slot-reuse": slot_reuse,
    "slot-event": slot_event,
    "commit-after-copy": commit_after_copy,
    "committed-rows": committed_rows,
    "chunk-once": chunk_once,
    "policy-version": policy_version,
    "batch-origin": batch_origin,
    "batch-rows": batch_rows,
    "hot-and-cold": hot_and_cold,
    "learning-start": learning_start,
}

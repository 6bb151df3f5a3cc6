"""How a store is compared with a model of it, step by random step."""

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test


def run_in(folder, machine, steps, examples=25, *, phases=tuple(Phase)):
    """Run a state machine that keeps what it has in a folder, ``machine.folder``; a failure is shrunk by default."""
    run_state_machine_as_test(
        type("Machine", (machine,), {"folder": folder}),
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=phases,
        ),
    )

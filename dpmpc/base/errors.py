"""Every error and warning that dpmpc raises on purpose, and the exit status that the command line gives an error.

`InputError` states that what was asked cannot be done as asked (status 2): it names the argument, its value
and what was expected. `ProtocolFailure` states that a run among several parties failed (status 3): it names
the party. `BenchFailed` (status 1) names the benches, of several, that ended with an error, or the claims of
privacy that `python -m bench audit` refuted, and `MachineUnfit` (status 1) what `dpmpc doctor` found. Nothing is
retried silently and nothing weaker is done instead.
"""

from __future__ import annotations


class PrivacyWarning(UserWarning):
    """What is being done is allowed, and costs more privacy than it may seem to."""


class UtilityWarning(UserWarning):
    """What was asked is done, and its result may be worth little; the message holds the number and the remedy."""


#: The verdict of a summary, a command or a page whose release leaves no finite confidence interval.
UNIDENTIFIED = (
    "The coefficients of this model cannot be identified from this release: the noise leaves no finite confidence "
    "interval. Predictions may be useful all the same, where the noise only hides which of several similar columns "
    "matters. More clients, a larger epsilon, tighter public bounds or fewer features help to identify coefficients."
)


class DpmpcError(Exception):
    """Root of the errors below.

    Parameters
    ----------
    argument : object
        The name of what is wrong: of an argument, a file or a column. Alone, it is the whole message.
    given, expected : object, optional
        What was given, and what was expected. Without `expected`, `given` states what is wrong.
    remedy : object, optional
        What to do, or why it is expected.
    condition : object, optional
        By what, or where, it is expected, with its preposition: "by the task".

    Attributes
    ----------
    argument, given, expected, remedy, condition : str or None
        The parts of the message, as texts; None where the message is its own sentence.
    """

    exit_status = 1
    argument: str | None = None
    given: str | None = None
    expected: str | None = None
    remedy: str | None = None
    condition: str | None = None

    def __init__(
        self,
        argument: object,
        given: object = None,
        expected: object = None,
        remedy: object = None,
        *,
        condition: object = None,
    ):
        if given is None and expected is None:
            super().__init__(argument)
            return
        self.argument, self.given = str(argument), str(given)
        self.expected = None if expected is None else str(expected)
        self.remedy = None if remedy is None else str(remedy)
        self.condition = None if condition is None else str(condition)
        super().__init__(self.text(self.argument))

    def text(self, name: str) -> str:
        """Return the message with another name of the argument, such as that of a command's option."""
        if self.expected is None:
            return f"{name}: {self.given}"
        condition = "" if self.condition is None else f" {self.condition}"
        reason = "" if self.remedy is None else f": {self.remedy}"
        return f"{name}: {self.given} given, {self.expected} expected{condition}{reason}"


class InputError(DpmpcError, ValueError):
    """An argument, a file or a column is not what it must be."""

    exit_status = 2


class GuaranteeError(InputError):
    """The privacy guarantee that was asked for cannot be met; the message holds the numbers."""


class BudgetExceeded(GuaranteeError):
    """A ledger has no room for a release; other parties receive that, and not what the ledger holds."""


class OverflowRisk(InputError):
    """The sum of all encoded rows and their noise might wrap around in the ring or field."""


class SimulationOnly(InputError):
    """Seeded randomness or a floating-point sampler was handed to code that protects real people."""


class TooFewClients(GuaranteeError):
    """A batch is smaller than the least that a collection promised its clients."""


class AlreadyReleased(GuaranteeError):
    """A server has opened some of these reports before; a second release would undo the noise of the first."""


class CollectionClosed(InputError):
    """A collection does not take reports now, or is not to be released now: it has not begun, has ended or expired."""


class ReportRejected(InputError):
    """An upload is not a list of reports to this server for this collection; nothing was stored."""


class ReportConflict(ReportRejected):
    """A report id was used for two different reports."""


class Withdrawn(ReportConflict):
    """A report with this id was withdrawn, and is never stored again."""


class TooLate(InputError):
    """A report cannot be withdrawn any more: this server has announced which ones it has for a release."""


class VerificationFailed(InputError):
    """A release file claims something that its public facts do not support."""


class SpoolError(DpmpcError):
    """A server's store of shares cannot be used, or its disk is full; nothing was acknowledged."""

    exit_status = 2


class BenchFailed(DpmpcError):
    """A bench refuted what it measures, or some of several benches ended with an error; the others ran."""


class MachineUnfit(DpmpcError):
    """`dpmpc doctor` found a problem that makes results impossible."""


class ProtocolFailure(DpmpcError):
    """A run among several parties failed.

    Parameters
    ----------
    message : str
        What happened.
    party : int, optional
        The number of the party at fault, where one is.
    """

    exit_status = 3

    def __init__(self, message: str, party: int | None = None):
        super().__init__(message)
        self.party = party


class PartyMissing(ProtocolFailure):
    """A party never came up, or made no progress within the deadline."""


class NotConfirmed(ProtocolFailure):
    """Too few servers have confirmed what they were asked to do; what the others did is not known."""


class PartyLost(ProtocolFailure):
    """A party's link broke before the protocol had ended."""


class PartyImpersonated(ProtocolFailure):
    """A peer's certificate is not the one of the party that it claims to be."""


class MalformedFrame(ProtocolFailure):
    """A peer sent bytes that are not a frame of this protocol: wrong length, wrong type, a pickle."""


class BatchMismatch(ProtocolFailure):
    """Two parties do not have the same task or the same batch of clients."""


class Equivocation(ProtocolFailure):
    """Parties received different things in one announcement: `party` is who is proven to have done so, or None."""


class InconsistentShares(ProtocolFailure):
    """More shares than needed were given, and they do not belong to one secret: somebody lied or erred."""

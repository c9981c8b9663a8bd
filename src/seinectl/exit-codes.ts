/** Exit codes of seinectl; scripts rely on these. */
export const exitCodes = {
  ok: 0,
  /** Negative answer: not ready, not in sync, not found. */
  different: 1,
  /** The command line, or a file that it names, is invalid. */
  usage: 2,
  unreachable: 3,
} as const;

export const exitCodeHelp = `Exit codes:
  0  fine
  1  negative: the agent is not ready, entries differ from the desired state, or nothing was found
  2  the command line, or a file it names, is invalid; explain: no such object
  3  no agent answers`;

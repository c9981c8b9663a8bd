import { exitCodes } from '../exit-codes.ts';

/** Exit codes of the commands that analyse policies. */
export const reachExitCodes = {
  ...exitCodes,
  /** The engine and the reference differ. */
  notConfirmed: 4,
} as const;

export const reachExitCodeHelp = `Exit codes:
  0  as expected; nothing found
  1  not as expected: a failed case, a finding, a changed connection
  2  a file, the command line, or the kubeconfig is invalid
  3  the objects are not complete: the API server does not answer
  4  engine and reference differ: a bug of Seine`;

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

/** Exit codes of `seinectl policy convert`. */
export const convertExitCodes = { complete: exitCodes.ok, leftOut: 3 } as const;

export const convertExitCodeHelp = `Exit codes:
  0  complete
  2  a file or the command line is invalid
  3  something is left out: standard error names object, field and value`;

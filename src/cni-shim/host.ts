/**
 * What the plugin needs from the system. `host.c` gives it to the native program, `node-host.ts` to Node, and tests have their
 * own. Functions that wait may answer at once or by a promise.
 */
export interface Host {
  /** The variable's value; undefined if it is not set. */
  getenv(name: string): string | undefined;
  /** All of standard input as text, or the error. A terminal is not read. */
  readStdin(bytesMax: number): { readonly text: string } | { readonly failed: string };
  writeStdout(text: string): void;
  writeStderr(text: string): void;
  /** Sends one frame, waits for one frame, and closes. Both are limited in time by `timeoutMs` together. */
  call(path: string, request: string, timeoutMs: number, replyBytesMax: number): AgentCallOutcome | Promise<AgentCallOutcome>;
  /** Milliseconds of a clock that only goes forward. */
  monotonicMs(): number;
  sleep(ms: number): void | Promise<void>;
  /**
   * Makes the file `folder/name` (0600, its folder and that one's parent 0700) with this content, atomically and durably.
   *
   * @returns why it could not be done, or undefined. A folder that has `filesMax` files already is a reason.
   */
  saveFile(folder: string, name: string, text: string, filesMax: number): string | undefined;
  /** How a file begins; undefined if it cannot be read. */
  readHead(path: string, bytesMax: number): string | undefined;
  /**
   * Makes an empty network namespace and mounts it as `folder/name`, the folder 0700, unless one is mounted there. The process is in that
   * namespace afterwards. One that is killed on the way leaves an empty file, or nothing; of several at once, one does it.
   *
   * @returns why it could not be done, or undefined
   */
  pinNamespace(folder: string, name: string): string | undefined;
}

/**
 * - `answered`    the agent's answer
 * - `unreachable` no process accepted the request: it was certainly not carried out
 * - `lost`        the connection ended before the answer: it may have been
 * - `late`        no answer in time: as `lost`, but the agent is there
 */
export type AgentCallOutcome =
  | { readonly kind: 'answered'; readonly reply: string }
  | { readonly kind: 'unreachable' | 'lost' | 'late'; readonly reason: string; readonly retry: boolean };

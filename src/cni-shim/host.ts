/**
 * System functions that the plugin uses. `host.c` implements them for the native program, `node-host.ts` for Node, and tests have their
 * own. Functions that wait may return directly or a promise.
 */
export interface Host {
  /** Returns the variable's value; undefined if it is not set. */
  getenv(name: string): string | undefined;
  /** Reads all of standard input as text, or returns the error. A terminal is not read. */
  readStdin(bytesMax: number): { readonly text: string } | { readonly failed: string };
  writeStdout(text: string): void;
  writeStderr(text: string): void;
  /** Sends one frame, waits for one frame, and closes. `timeoutMs` limits both together. */
  call(path: string, request: string, timeoutMs: number, replyBytesMax: number): AgentCallOutcome | Promise<AgentCallOutcome>;
  /** Returns the time of a monotonic clock (ms). */
  monotonicMs(): number;
  sleep(ms: number): void | Promise<void>;
  /**
   * Creates the file `folder/name` (0600, its folder and that one's parent 0700) with this content, atomically and durably.
   *
   * @returns the reason for a failure, or undefined. A folder that already has `filesMax` files is a reason.
   */
  saveFile(folder: string, name: string, text: string, filesMax: number): string | undefined;
  /** Returns the start of a file; undefined if it cannot be read. */
  readHead(path: string, bytesMax: number): string | undefined;
  /**
   * Creates an empty network namespace and mounts it as `folder/name`, the folder 0700, unless one is already mounted there. The process is
   * in that namespace afterwards. A process that is killed before the end leaves an empty file, or nothing; of several concurrent ones, one
   * does it.
   *
   * @returns the reason for a failure, or undefined
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

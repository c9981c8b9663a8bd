/** One entry point. */
export interface Target {
  readonly name: string;
  /** Kind of its input, for `--help`. */
  readonly what: string;
  /** Valid inputs to begin with. */
  readonly seeds: () => readonly Uint8Array[];
  /**
   * Passes the bytes to their reader.
   *
   * @returns true if they were read; `false` if they were properly rejected
   * @throws anything else, which is a fault
   */
  readonly read: (bytes: Buffer) => boolean | Promise<boolean>;
}

/** @param isRefusal reports whether an error is the reader's rejection */
export async function isRead(read: () => unknown, isRefusal: (thrown: unknown) => boolean): Promise<boolean> {
  try {
    await read();
    return true;
  } catch (thrown) {
    if (isRefusal(thrown)) return false;
    throw thrown;
  }
}

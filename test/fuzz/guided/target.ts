/** One way in. */
export interface Target {
  readonly name: string;
  /** What comes in there, for `--help`. */
  readonly what: string;
  /** Sound inputs to begin with. */
  readonly seeds: () => readonly Uint8Array[];
  /**
   * Gives the octets to what reads them.
   *
   * @returns whether they were read; `false` if they were refused as they should be
   * @throws anything else, which is a fault
   */
  readonly read: (bytes: Buffer) => boolean | Promise<boolean>;
}

/** @param isRefusal whether this is how the reader says that it does not take something */
export async function isRead(read: () => unknown, isRefusal: (thrown: unknown) => boolean): Promise<boolean> {
  try {
    await read();
    return true;
  } catch (thrown) {
    if (isRefusal(thrown)) return false;
    throw thrown;
  }
}

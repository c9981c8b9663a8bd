/** Reports progress of the set-up on stderr. Stdout belongs to the verb that runs afterwards (its last line may be JSON). */
export function say(line) {
  process.stderr.write(`seine setup: ${line}\n`);
}

/** A failure that the user can remedy: `message` and `remedy`, one line each. */
export class SetupError extends Error {
  constructor(message, remedy) {
    super(message);
    this.name = 'SetupError';
    this.remedy = remedy;
  }
}

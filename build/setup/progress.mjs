/**
 * Reports on stderr what the set-up does. Stdout belongs to the verb that runs afterwards (its last line may be JSON).
 */
export function say(line) {
  process.stderr.write(`seine setup: ${line}\n`);
}

/** A failure the user can act on: `message` says what failed, `remedy` what to do, one line each. */
export class SetupError extends Error {
  constructor(message, remedy) {
    super(message);
    this.name = 'SetupError';
    this.remedy = remedy;
  }
}

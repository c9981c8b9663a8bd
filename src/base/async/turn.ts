/** Gives one caller at a time access to a resource. */
export class Turn<T> {
  readonly thing: T;
  #last: Promise<unknown> = Promise.resolve();

  constructor(thing: T) {
    this.thing = thing;
  }

  take<R>(work: (thing: T) => Promise<R>): Promise<R> {
    const turn = this.#last.then(() => work(this.thing));
    this.#last = turn.catch(() => undefined); // the caller has received the error
    return turn;
  }
}

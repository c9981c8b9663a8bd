import { SeineError } from '../base/errors/seine-error.ts';
import { errnoOf } from './errno.ts';
import { changeLink, deleteLink, deleteLinkGroup } from './links.ts';
import { Batch } from './message.ts';
import { NetlinkSocket } from './socket.ts';

type LinkRemoval = 'removed' | 'absent';

interface Job {
  readonly name: string;
  readonly done: Promise<LinkRemoval>;
  readonly settle: (result: LinkRemoval) => void;
  readonly fail: (error: SeineError) => void;
}

/**
 * Deletes links outside the event loop, because the kernel takes 16 ms for one veth (it waits for an RCU grace period).
 *
 * Names that arrive while it works are deleted together: they are put into a link group, and a group is deleted in the time of one link.
 * One thread of libuv's pool is used at a time, so that files and DNS are not delayed.
 */
export class LinkRemover {
  readonly #socket: NetlinkSocket;
  readonly #waiting = new Map<string, Job>();
  #loop: Promise<void> | undefined;
  /** Higher than the groups that administrators use, and different from a group that an earlier process may have left. */
  readonly #group = 0x5e00_0000 + Math.floor(Math.random() * 0x100_0000);

  /** @param socket used by nothing else, and closed by `close` */
  constructor(socket: NetlinkSocket) {
    this.#socket = socket;
  }

  static open(): LinkRemover {
    return new LinkRemover(NetlinkSocket.open());
  }

  /**
   * Deletes the link of this name. Callers that wait for one name share the work, but a running job accepts no more callers: the name may
   * by then belong to another link.
   *
   * @throws SeineError `CANCELLED` if `signal` fires first: the removal continues
   */
  async remove(name: string, signal: AbortSignal): Promise<LinkRemoval> {
    const job = this.#waiting.get(name) ?? this.#enqueue(name);
    return await unlessAborted(job.done, signal, `remove link ${name}`);
  }

  /** Waits until every removal requested so far has ended, with success or not. */
  async idle(): Promise<void> {
    await this.#loop;
  }

  async close(): Promise<void> {
    await this.idle();
    this.#socket.close();
  }

  #enqueue(name: string): Job {
    const job = newJob(name);
    this.#waiting.set(name, job);
    this.#loop ??= this.#work();
    return job;
  }

  async #work(): Promise<void> {
    await Promise.resolve(); // requests of one tick are joined
    while (this.#waiting.size > 0) {
      const jobs = [...this.#waiting.values()].slice(0, linksAtOnce);
      for (const { name } of jobs) this.#waiting.delete(name);
      await this.#removeAll(jobs);
    }
    this.#loop = undefined;
  }

  async #removeAll(jobs: readonly Job[]): Promise<void> {
    if (jobs.length === 1) return await this.#removeEach(jobs);
    let there: readonly Job[] = jobs;
    try {
      there = this.#gather(jobs);
      if (there.length === 0) return;
      const batch = new Batch();
      deleteLinkGroup(batch, this.#group);
      await this.#socket.transactOffThread(batch);
      for (const job of there) job.settle('removed');
    } catch {
      // If one link of the group is of a kind that cannot be deleted, then none is deleted: each gets its own answer.
      await this.#removeEach(there);
    }
  }

  /** @returns the jobs whose links exist, now all in one group */
  #gather(jobs: readonly Job[]): Job[] {
    const batch = new Batch();
    for (const { name } of jobs) changeLink(batch, name, { group: this.#group });
    const failures = this.#socket.attempt(batch);
    return jobs.filter((job, index) => {
      const failure = failures[index];
      if (failure === undefined) return true;
      settleFailure(job, failure);
      return false;
    });
  }

  async #removeEach(jobs: readonly Job[]): Promise<void> {
    for (const job of jobs) {
      try {
        const batch = new Batch();
        deleteLink(batch, job.name);
        await this.#socket.transactOffThread(batch);
        job.settle('removed');
      } catch (error) {
        settleFailure(job, SeineError.from(error, `remove link ${job.name}`));
      }
    }
  }
}

/** Maximum number of links of a group: it is deleted under the kernel's global lock for links, and other callers should not wait long. */
const linksAtOnce = 64;

function newJob(name: string): Job {
  let settle: Job['settle'] = () => {};
  let fail: Job['fail'] = () => {};
  const done = new Promise<LinkRemoval>((resolve, reject) => {
    settle = resolve;
    fail = reject;
  });
  done.catch(() => {}); // the caller may have stopped waiting
  return { name, done, settle, fail };
}

function settleFailure(job: Job, failure: SeineError): void {
  if (errnoOf(failure) === 'ENODEV') job.settle('absent');
  else job.fail(failure);
}

async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal, what: string): Promise<T> {
  let onAbort = () => {};
  const aborted = new Promise<never>((_, reject) => {
    onAbort = () => reject(new SeineError('CANCELLED', what, { cause: signal.reason }));
  });
  if (signal.aborted) onAbort();
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

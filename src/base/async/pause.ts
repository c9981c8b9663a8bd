import { setTimeout as sleep } from 'node:timers/promises';

/** Waits for the given time (ms), or until `signal` aborts. Never rejects: the caller checks the signal next. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => undefined); // only an abort rejects
}

/** Like `pause`, but does not keep the process alive. */
export async function idle(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal, ref: false }).catch(() => undefined); // only an abort rejects
}

import { setTimeout as sleep } from 'node:timers/promises';

/** Waits so long (ms), or until `signal` aborts if that is sooner. Never rejects: the caller checks the signal next. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => undefined); // only an abort rejects
}

/** As `pause`, without keeping the process alive. */
export async function idle(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal, ref: false }).catch(() => undefined); // only an abort rejects
}

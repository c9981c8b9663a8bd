import { setTimeout as sleep } from 'node:timers/promises';

/** Waits so long (ms), or until `signal` aborts if that is sooner. Never rejects: whoever pauses looks at the signal next. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => undefined); // only an abort rejects
}

/** As `pause`, and keeps no process running by itself. */
export async function idle(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal, ref: false }).catch(() => undefined); // only an abort rejects
}

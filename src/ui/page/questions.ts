import { useEffect, useState } from 'preact/hooks';
import type { Aged, UiFailure } from '../answers/failure.ts';

/** State of a question of a view. */
export interface Asked<T> {
  readonly answer?: T;
  /** Time of the answer (ms since 1970). */
  readonly atMs?: number;
  /** Reason why there is no newer answer. */
  readonly stale?: string;
  readonly failure?: UiFailure;
  readonly isLoading: boolean;
  readonly ask: () => void;
}

const ACTION_HEADER = 'x-seine-action';

/** @throws TypeError if the server does not answer */
async function fetchAnswer<T>(path: string, init: RequestInit): Promise<Aged<T> | { readonly error: UiFailure }> {
  const response = await fetch(path, { ...init, credentials: 'same-origin' });
  if ((response.headers.get('content-type') ?? '').startsWith('application/json'))
    return (await response.json()) as Aged<T> | { readonly error: UiFailure };
  return { error: { kind: 'forbidden', message: (await response.text()).trim() } };
}

/**
 * Asks the server, and again after each interval while the page is visible.
 *
 * @param path below `/api/`, with query; undefined: nothing is asked
 * @param everyMs time between two answers; undefined: asked once
 */
export function useAnswer<T>(path: string | undefined, everyMs?: number, method: 'GET' | 'POST' = 'GET'): Asked<T> {
  const [state, setState] = useState<{ readonly path: string | undefined; readonly asked: Omit<Asked<T>, 'ask'> }>({
    path,
    asked: { isLoading: path !== undefined },
  });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    if (path === undefined) return;
    const gone = new AbortController();
    const finish = (asked: Omit<Asked<T>, 'ask' | 'isLoading'>): void =>
      setState((before) => {
        const kept = before.path === path && asked.answer === undefined ? before.asked : {};
        return { path, asked: { ...withoutFailure(kept), ...asked, isLoading: false } };
      });
    setState((before) => ({ path, asked: { ...(before.path === path ? before.asked : {}), isLoading: true } }));
    const headers = method === 'POST' ? { [ACTION_HEADER]: '1' } : undefined;
    fetchAnswer<T>(`/api/${path}`, { method, signal: gone.signal, ...(headers && { headers }) }).then(
      (got) => {
        if (gone.signal.aborted) return;
        if ('error' in got) finish({ failure: got.error });
        else finish({ answer: got.answer, atMs: got.atMs, ...(got.stale !== undefined && { stale: got.stale }) });
      },
      () => {
        if (!gone.signal.aborted) finish({ failure: { kind: 'unavailable', message: 'seinectl ui has ended: run it again' } });
      },
    );
    return () => gone.abort();
  }, [path, method, turn]);
  useEffect(() => {
    if (everyMs === undefined) return;
    const timer = setInterval(() => {
      if (!document.hidden) setTurn((value) => value + 1);
    }, everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  const asked = state.path === path ? state.asked : { isLoading: path !== undefined };
  return { ...asked, ask: () => setTurn((value) => value + 1) };
}

function withoutFailure<T>({ failure: _, ...kept }: Partial<Asked<T>>): Partial<Asked<T>> {
  return kept;
}

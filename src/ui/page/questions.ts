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

interface QuestionOptions {
  /** Time between two answers; absent: asked once. */
  readonly everyMs?: number;
  /** Text of a POST; absent: GET. */
  readonly body?: string;
}

/**
 * Asks the server, and again after each interval while the page is visible.
 *
 * @param path below `/api/`, with query; undefined: nothing is asked
 */
export function useAnswer<T>(path: string | undefined, { everyMs, body }: QuestionOptions = {}): Asked<T> {
  const [state, setState] = useState<AskedState<T>>({ path, body, asked: { isLoading: path !== undefined } });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    if (path === undefined) return;
    const gone = new AbortController();
    const finish = (asked: Omit<Asked<T>, 'ask' | 'isLoading'>): void =>
      setState((before) => {
        const kept = isSame(before, { path, body }) && asked.answer === undefined ? before.asked : {};
        return { path, body, asked: { ...withoutFailure(kept), ...asked, isLoading: false } };
      });
    setState((before) => ({ path, body, asked: { ...(isSame(before, { path, body }) ? before.asked : {}), isLoading: true } }));
    const action = body === undefined ? {} : { method: 'POST', headers: { [ACTION_HEADER]: '1' }, body };
    fetchAnswer<T>(`/api/${path}`, { signal: gone.signal, ...action }).then(
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
  }, [path, body, turn]);
  useEffect(() => {
    if (everyMs === undefined) return;
    const timer = setInterval(() => {
      if (!document.hidden) setTurn((value) => value + 1);
    }, everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  const asked = isSame(state, { path, body }) ? state.asked : { isLoading: path !== undefined };
  return { ...asked, ask: () => setTurn((value) => value + 1) };
}

interface PageQuestion {
  readonly path: string | undefined;
  readonly body: string | undefined;
}

interface AskedState<T> extends PageQuestion {
  readonly asked: Omit<Asked<T>, 'ask'>;
}

const isSame = (one: PageQuestion, other: PageQuestion): boolean => one.path === other.path && one.body === other.body;

function withoutFailure<T>({ failure: _, ...kept }: Partial<Asked<T>>): Partial<Asked<T>> {
  return kept;
}

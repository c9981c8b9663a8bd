import { ApiError } from '../../lab/apiserver/errors/api-error.ts';

/** Rejection of the lab's API server. @throws Error if it accepts; other errors are rethrown */
export function refusalOf(act: () => unknown): ApiError {
  try {
    act();
  } catch (error) {
    if (error instanceof ApiError) return error;
    throw error;
  }
  throw new Error('not refused');
}

import { ApiError } from '../../lab/apiserver/errors/api-error.ts';

/** How the lab's API server refuses this. @throws Error if it does not; whatever else is thrown is thrown on */
export function refusalOf(act: () => unknown): ApiError {
  try {
    act();
  } catch (error) {
    if (error instanceof ApiError) return error;
    throw error;
  }
  throw new Error('not refused');
}

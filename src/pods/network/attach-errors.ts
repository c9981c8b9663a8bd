import { SeineError } from '../../base/errors/seine-error.ts';

/** Adds the runtime's variable that caused an error, if there is one. */
export function blameVariable(error: SeineError): SeineError {
  const message = error.rawMessage;
  if (error.context['conflict'] === 'podName') return nameTaken(message, error);
  // The target rejects wrong input of the runtime, and its error is the cause.
  if (error.cause instanceof SeineError && error.cause.code === 'INVALID_INPUT')
    return new SeineError('INVALID_INPUT', message, { context: { variable: 'CNI_NETNS', ...error.context }, cause: error });
  return error;
}

/** Makes the error for an interface name that is in use, which the runtime has chosen. */
export function nameTaken(message: string, cause?: SeineError): SeineError {
  return new SeineError('INVALID_INPUT', message, { context: { ...cause?.context, variable: 'CNI_IFNAME' }, cause });
}

import { SeineError } from '../../base/errors/seine-error.ts';

/** Says which of the runtime's variables is at fault, where one is. */
export function blameVariable(error: SeineError): SeineError {
  const message = error.rawMessage;
  if (error.context['conflict'] === 'podName') return nameTaken(message, error);
  // The target refuses what the runtime has got wrong, and says so in the cause.
  if (error.cause instanceof SeineError && error.cause.code === 'INVALID_INPUT')
    return new SeineError('INVALID_INPUT', message, { context: { variable: 'CNI_NETNS', ...error.context }, cause: error });
  return error;
}

/** An interface of that name is the runtime's fault. */
export function nameTaken(message: string, cause?: SeineError): SeineError {
  return new SeineError('INVALID_INPUT', message, { context: { ...cause?.context, variable: 'CNI_IFNAME' }, cause });
}

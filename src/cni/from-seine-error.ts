import { type ErrorCode, SeineError } from '../base/errors/seine-error.ts';
import { type CniCode, CniError, cniCodes } from './errors.ts';

/** The step that failed, where the code alone does not tell. */
type CallStage = 'request' | 'addresses' | 'wiring';

const codes: Readonly<Record<CallStage, Readonly<Record<ErrorCode, CniCode>>>> = {
  request: table(cniCodes.internal),
  addresses: table(cniCodes.addressUnavailable),
  wiring: table(cniCodes.wiringFailed),
};

function table(failed: CniCode): Readonly<Record<ErrorCode, CniCode>> {
  return {
    INVALID_INPUT: cniCodes.invalidConfig,
    REFUSED: failed,
    UNAVAILABLE: failed,
    PROTOCOL: failed,
    CANCELLED: cniCodes.tryAgainLater,
    INVARIANT: cniCodes.internal,
  };
}

/**
 * Any failure as a CNI error. The one place where Seine's error codes become CNI's: a `context.variable` names the
 * CNI_* variable at fault.
 */
export function toCniError(thrown: unknown, stage: CallStage): CniError {
  if (thrown instanceof CniError) return thrown;
  const error = SeineError.from(thrown, `CNI ${stage}`);
  const { variable } = error.context;
  const message = error.rawMessage;
  if (error.code === 'INVALID_INPUT' && typeof variable === 'string')
    return new CniError(cniCodes.invalidEnvironment, `${variable}: ${message}`);
  return new CniError(codes[stage][error.code], message, causeOf(error));
}

function causeOf({ cause }: SeineError): string {
  return cause instanceof Error ? cause.message : '';
}

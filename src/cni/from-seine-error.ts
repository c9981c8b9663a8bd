import { type ErrorCode, SeineError } from '../base/errors/seine-error.ts';
import { type CniCode, CniError, cniCodes } from './errors.ts';

/** Step that failed, if the code alone is not sufficient. */
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
 * Converts any failure to a CNI error. The only place where Seine's error codes become CNI's: `context.variable` names the invalid CNI_*
 * variable.
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

import { ApiError } from '../errors/api-error.ts';

interface MediaRange {
  readonly type: string;
  readonly parameters: ReadonlyMap<string, string>;
}

/** The ranges of an `Accept` header, the first preferred; quality values are ignored, as no client of the lab sends them. */
export function mediaRanges(accept: string): readonly MediaRange[] {
  return accept.split(',').map((range) => {
    const [type = '', ...rest] = range.split(';').map((part) => part.trim());
    const pairs = rest.map((part) => part.split('=', 2) as [string, string?]);
    return { type: type.toLowerCase(), parameters: new Map(pairs.map(([name, value = '']) => [name, value])) };
  });
}

export function notAcceptable(): ApiError {
  return new ApiError(406, 'NotAcceptable', 'only the following media types are accepted: application/json');
}

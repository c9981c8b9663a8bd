import { ownValue } from '../client/resource.ts';

/** Answers to denied clients that the annotation may state. */
export const deniedValues = ['drop', 'reject'] as const;

/** Answer to denied clients: none, or a refusal. */
export type DeniedAnswer = (typeof deniedValues)[number];

export const deniedAnnotation = 'seine.dev/denied';

/** Returns the answer that an annotation states; absent if there is none, or it is not one of `deniedValues`. */
export function deniedIn(annotations: Readonly<Record<string, string>> | null | undefined): { readonly denied?: DeniedAnswer } {
  const text = ownValue(annotations, deniedAnnotation);
  const denied = deniedValues.find((each) => each === text);
  return denied ? { denied } : {};
}

/** Longer than any value. */
const SHOWN_MAX = 32;

/** Returns the start of an annotation that is none of `deniedValues`; undefined if there is none, or a valid one. */
export function invalidDeniedIn(annotations: Readonly<Record<string, string>> | null | undefined): string | undefined {
  const text = ownValue(annotations, deniedAnnotation);
  return text === undefined || deniedIn(annotations).denied ? undefined : text.slice(0, SHOWN_MAX);
}

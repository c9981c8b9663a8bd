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

import { z } from 'zod';

export const absolutePath = z.string().regex(/^\/[^\0]*$/, 'is not an absolute path');

/** Size in bytes: a number, or with a suffix of Kubernetes quantities. */
export const size = z
  .union([z.int(), z.string()])
  .transform((value, context): number => {
    const [, digits, unit] = /^(\d{1,12})(Ki|Mi|Gi)?B?$/.exec(String(value)) ?? [];
    const bytes = Number(digits) * { '': 1, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30 }[(unit ?? '') as '' | 'Ki' | 'Mi' | 'Gi'];
    if (Number.isSafeInteger(bytes)) return bytes;
    context.addIssue({ code: 'custom', message: `${JSON.stringify(value)} is not a size, such as 32MiB` });
    return z.NEVER;
  })
  .refine((bytes) => bytes === 0 || (bytes >= 2 ** 20 && bytes <= 2 ** 32), 'is neither 0 nor from 1MiB to 4GiB');

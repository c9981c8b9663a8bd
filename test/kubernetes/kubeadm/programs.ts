import { z } from 'zod';

const kubeadmPrograms = z.object({ version: z.string(), kubeadm: z.string(), kubelet: z.string(), images: z.string() });

/** Programs and images of one version, as `build/kubernetes/build.mjs --kubeadm` reports them. */
export type KubeadmPrograms = z.infer<typeof kubeadmPrograms>;

const programs = z.object({
  /** Folder of the programs of the whole Kubernetes, and of the images of its tests. */
  whole: z.object({ version: z.string(), programs: z.string(), images: z.string() }),
  current: kubeadmPrograms,
  before: kubeadmPrograms,
  runc: z.string(),
  crane: z.string(),
  helm: z.string(),
});
export type KubeadmTestPrograms = z.infer<typeof programs>;

/** Paths that `npm run test:kubernetes -- --only kubeadm` has built. */
export function kubeadmTestPrograms(): KubeadmTestPrograms {
  return programs.parse(JSON.parse(process.env['SEINE_TEST_KUBEADM'] ?? 'null'));
}

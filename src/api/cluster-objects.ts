/**
 * Line of `GET /v1/objects`: objects of the cluster that decide about packets besides those of policies (`PolicyEvidence`). `end` means that they
 * are complete, `failed` that they are not, with the reason.
 */
export type ClusterObjectsLine =
  | {
      readonly kind: 'object';
      readonly of: ClusterObjectsList /** Object as in the API server, without members that no agent reads. */;
      readonly object: unknown;
    }
  | { readonly kind: 'failed'; readonly message: string }
  | { readonly kind: 'end' };

/** Kind of an API object, by the name of its list. */
export type ClusterObjectsList = 'services' | 'slices' | 'liveSettings';

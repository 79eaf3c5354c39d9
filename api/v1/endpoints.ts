import type { Endpoint } from '../endpoint.ts'

/** Every endpoint of the blob API; see the list in `app.ts`. */
export const blobEndpoints: readonly Endpoint[] = []

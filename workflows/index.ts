/** Every workflow the platform's worker runs; the bundle is built from this file. */
export { appLane } from './app-lane.ts'
export { blobUpkeep } from './blob-upkeep.ts'
export { downgrade } from './downgrade.ts'

/** All workflows of the platform's worker; the bundle is built from this file. */
export { appLane } from './app-lane.ts'
export { blobUpkeep } from './blob-upkeep.ts'
export { databaseLane } from './databases/database-lane.ts'
export { domain } from './domain.ts'
export { downgrade } from './downgrade.ts'

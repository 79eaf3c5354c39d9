import type { Owner } from '../../lib/folders/owner.ts'
import type { AppHostOptions } from '../hosts/app-host-options.ts'
import type { PlacementRequest } from '../placement/port.ts'
import type { Release } from './release.ts'

/** Who owns the files of a release, and where they are placed. */
export function releasePlacement(host: Pick<AppHostOptions, 'volumes' | 'sharedUid'>) {
  const ownerUid = (release: Release) => host.sharedUid ?? release.uid
  const ownerOf = (release: Release): Owner | null =>
    host.sharedUid === null ? { uid: release.uid, gid: release.uid } : null
  const placementOf = (release: Release): PlacementRequest => ({
    volume: host.volumes.path(release.appId),
    release: release.number,
    path: release.path,
    whole: release.source?.kind === 'git' || release.source?.kind === 'snapshot',
    swap: release.source?.kind === 'snapshot',
    owner: ownerOf(release),
  })
  return { ownerUid, ownerOf, placementOf }
}

import type { ShareRow } from '../../db/objects/shares.ts'
import { idOf } from './object.ts'

const linkView = (share: ShareRow, filesUrl: string) => ({
  id: share.id,
  url: `${filesUrl}/s/${share.id}`,
  object: idOf(share),
  expires_at: share.expires_at.toISOString(),
  password: share.password_hash !== null,
})

/** Contract 7.26. */
export const createdShareView = (share: ShareRow, filesUrl: string) => ({
  ...linkView(share, filesUrl),
  max_downloads: share.max_downloads,
  object_is_public: share.bucket !== 'private',
})

/** Item of the list (contract 7.26). */
export const shareView = (share: ShareRow, filesUrl: string) => ({
  ...linkView(share, filesUrl),
  remaining_downloads: share.remaining,
  created_at: share.created_at.toISOString(),
})

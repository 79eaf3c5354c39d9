import { isIP } from 'node:net'

const settings = { api: 'BASE_URL', blob: 'BLOB_URL', s3: 'S3_URL', files: 'FILES_URL', public: 'PUBLIC_URL' } as const

export type SurfaceNames = Partial<Record<keyof typeof settings, string>>

/** The host names of the platform's surfaces in the settings; addresses are left out. */
export function surfaceNames(env: Readonly<Record<string, string | undefined>>): SurfaceNames {
  const names: SurfaceNames = {}
  for (const [surface, setting] of Object.entries(settings) as [keyof SurfaceNames, string][]) {
    const url = env[setting]
    const name = url && URL.canParse(url) ? new URL(url).hostname : ''
    if (name && name !== 'localhost' && !isIP(name) && !name.startsWith('[')) names[surface] = name
  }
  return names
}

/** Later versions have a replace directive, which `go install` refuses. */
export const temporalVersion = '1.5.1'

/** SHA-256 of the released archives, by platform and processor as named by Node. */
const archives: Readonly<Record<string, readonly [name: string, sha256: string]>> = {
  'linux-x64': ['linux_amd64', 'ddc95e08b0b076efd4ea9733a3f488eb7d2be875f8834e616cd2a37358b4852d'],
  'linux-arm64': ['linux_arm64', 'bd1b0db9f18b051026de8bf6cc1505f2510f14bbb7a8b9a4a91fff46c77454f5'],
  'darwin-x64': ['darwin_amd64', 'bbb73e2a31135abe50a1f1cdb35030c42961df618e8ce9c60ae89f201540c5d9'],
  'darwin-arm64': ['darwin_arm64', 'cca01b7ea35ad56e2a328d9ae596bf716bd22313ef63c7a761c88354457c2415'],
}

/** URLs of the archive with Temporal's program, and its SHA-256; null when there is none for the platform. */
export function temporalArchive(platform: string, arch: string): { urls: string[]; sha256: string } | null {
  const archive = archives[`${platform}-${arch}`]
  if (!archive) return null
  const [name, sha256] = archive
  const release = `https://github.com/temporalio/cli/releases/download/v${temporalVersion}`
  const [os, processor] = name.split('_')
  const mirror = `https://temporal.download/cli/archive/v${temporalVersion}?platform=${os}&arch=${processor}`
  return { urls: [`${release}/temporal_cli_${temporalVersion}_${name}.tar.gz`, mirror], sha256 }
}

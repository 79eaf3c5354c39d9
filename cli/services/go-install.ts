import { networkVariables, ownVariables, systemEnvironment } from '../../lib/child-process.ts'
import { findProgram, MissingPart, runInstaller } from './system-packages.ts'

/** The variables in `go help environment` that say where Go stores and finds files, and how it reaches modules. */
const goVariables = [
  ...['PATH', 'HOME', 'TMPDIR', 'XDG_CACHE_HOME', 'XDG_CONFIG_HOME', 'NETRC', 'GIT_SSL_CAINFO'],
  ...['GOPATH', 'GOROOT', 'GOENV', 'GOFLAGS', 'GOTOOLCHAIN', 'GOCACHE', 'GOMODCACHE', 'GOTMPDIR'],
  ...['GOPROXY', 'GONOPROXY', 'GOPRIVATE', 'GOINSECURE', 'GOAUTH', 'GOSUMDB', 'GONOSUMDB'],
]

/** The path of Go. Throws `MissingPart` with this message when there is none. */
export function findGo(missing: string): string {
  const go = findProgram('go', `${process.env.PATH}:/usr/local/go/bin`)
  if (!go) throw new MissingPart(missing)
  return go
}

/** Builds a program, `module/path@version`, into a folder. Go verifies its source against the public checksum database. */
export async function goInstall(go: string, source: string, folder: string): Promise<void> {
  const env = { ...systemEnvironment, ...ownVariables([...networkVariables, ...goVariables]), GOBIN: folder }
  const code = await runInstaller(go, ['install', source], env)
  if (code !== 0) throw new MissingPart(`go install ${source} exited with ${code}; see its messages above.`)
}

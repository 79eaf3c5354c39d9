import { existsSync } from 'node:fs'
import { runProcess, systemEnvironment } from '../lib/child-process.ts'

export const nginxPackages = ['nginx-light', 'libnginx-mod-http-lua']

/** What an nginx binary can load and understands. */
export interface NginxBuild {
  /** Folder of its loadable modules. */
  modules: string
  /** Since 1.25.1, HTTP/2 is a directive of its own, and no longer a word of `listen`. */
  http2Directive: boolean
  /** Whether its module for brotli is installed (Debian: libnginx-mod-http-brotli-filter). */
  brotli: boolean
}

/** Throws an Error that names the missing packages when the binary does not run or the Lua module is missing. */
export async function inspectNginx(nginx: string): Promise<NginxBuild> {
  const { stderr } = await runProcess(nginx, ['-V'], { env: systemEnvironment }).catch(error => {
    throw missingPackages(`${nginx} does not run: ${error instanceof Error ? error.message : error}`)
  })
  const modules = /--modules-path=(\S+)/.exec(stderr)?.[1] ?? '/usr/lib/nginx/modules'
  const missing = ['ndk_http_module.so', 'ngx_http_lua_module.so'].filter(name => !existsSync(`${modules}/${name}`))
  if (missing.length) throw missingPackages(`${missing.join(' and ')} not found in ${modules}`)
  const [major = 0, minor = 0, patch = 0] = /nginx\/([\d.]+)/.exec(stderr)?.[1]?.split('.').map(Number) ?? []
  return {
    modules,
    http2Directive: major > 1 || minor > 25 || (minor === 25 && patch >= 1),
    brotli: existsSync(`${modules}/ngx_http_brotli_filter_module.so`),
  }
}

function missingPackages(reason: string): Error {
  return new Error(`The proxy cannot start: ${reason}. Install it with: apt-get install ${nginxPackages.join(' ')}`)
}

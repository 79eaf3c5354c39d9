import { existsSync } from 'node:fs'
import { runProcess, systemEnvironment } from '../lib/child-process.ts'

export const nginxPackages = ['nginx-light', 'libnginx-mod-http-lua']

/**
 * The folder with the modules of this nginx binary. Throws an Error that names the missing packages when the binary
 * does not run or the Lua module is missing.
 */
export async function findModules(nginx: string): Promise<string> {
  const folder = await compiledModulesPath(nginx)
  const missing = ['ndk_http_module.so', 'ngx_http_lua_module.so'].filter(name => !existsSync(`${folder}/${name}`))
  if (missing.length) throw missingPackages(`${missing.join(' and ')} not found in ${folder}`)
  return folder
}

async function compiledModulesPath(nginx: string): Promise<string> {
  const { stderr } = await runProcess(nginx, ['-V'], { env: systemEnvironment }).catch(error => {
    throw missingPackages(`${nginx} does not run: ${error instanceof Error ? error.message : error}`)
  })
  return /--modules-path=(\S+)/.exec(stderr)?.[1] ?? '/usr/lib/nginx/modules'
}

function missingPackages(reason: string): Error {
  return new Error(`The proxy cannot start: ${reason}. Install it with: apt-get install ${nginxPackages.join(' ')}`)
}

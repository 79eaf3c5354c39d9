import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'ava'
import { credentialText, gitConfig, proxyCredentialText } from '../../../activities/git/config.ts'
import type { DiscoveredRepository } from '../../../activities/git/discovery.ts'
import { hostProxy } from '../../../policy/hosts/proxy-address.ts'

const server: DiscoveredRepository = {
  url: 'https://forge.example:8443/a.git',
  host: 'forge.example',
  port: 8443,
  secure: true,
  addresses: ['1.1.1.1', '2606:4700:4700::1111'],
  token: 'the-token',
  proxy: null,
}

test('git reads the configuration as intended, and it contains no token', t => {
  const folder = mkdtempSync(join(tmpdir(), 'berth-git-config-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const file = join(folder, 'config')
  const read = (name: string) => execFileSync('git', ['config', '--file', file, name], { encoding: 'utf8' }).trim()
  writeFileSync(file, gitConfig(server, '/etc/ca "own".pem', 120))
  t.is(read('http.curloptResolve'), 'forge.example:8443:1.1.1.1,[2606:4700:4700::1111]')
  t.is(read('http.followRedirects'), 'false')
  t.is(read('http.sslCAInfo'), '/etc/ca "own".pem')
  t.is(read('core.hooksPath'), '/dev/null')
  t.is(read('http.proxy'), '')
  t.is(read('credential.helper'), '')
  t.is(read('credential.https://forge.example:8443.helper'), '!f() { test "$1" = get && cat <&3; }; f')
  t.false(gitConfig(server, null, 120).includes('the-token'))
  t.is(credentialText(server), 'username=x-access-token\npassword=the-token\n')
})

test('without a token there is no helper, and a literal address needs no pin', t => {
  const open = gitConfig({ ...server, host: '1.1.1.1', addresses: ['1.1.1.1'], token: null }, null, 120)
  t.regex(open, /helper = ""/)
  t.notRegex(open, /curloptResolve|sslCAInfo/)
  t.is(credentialText({ ...server, token: null }), null)
})

test('a proxy gets its password by a pipe of its own, and resolves the name', t => {
  const proxy = hostProxy('https://corp%20user:p%40ss@proxy.corp:3128')
  const through = { ...server, addresses: [], proxy }
  const config = gitConfig(through, '/etc/ca.pem', 120)
  t.regex(
    config,
    /proxy = "https:\/\/corp%20user@proxy\.corp:3128"\n\tproxyAuthMethod = "basic"\n\tproxySSLCAInfo = "\/etc\/ca\.pem"/,
  )
  t.regex(config, /\[credential "https:\/\/proxy\.corp:3128"\]\n\thelper = ".*cat <&4;/)
  t.notRegex(config, /curloptResolve|p@ss|p%40ss|the-token/)
  t.is(proxyCredentialText(through), 'username=corp user\npassword=p@ss\n')
  const open = gitConfig({ ...through, proxy: hostProxy('proxy.corp:3128') }, '/etc/ca.pem', 120)
  t.regex(open, /proxy = "http:\/\/proxy\.corp:3128"/)
  t.notRegex(open, /proxyAuthMethod|proxySSLCAInfo|<&4/)
  t.is(proxyCredentialText(server), null)
})

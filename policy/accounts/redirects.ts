const loopbackHosts = ['127.0.0.1', '[::1]', 'localhost']
const longest = 512

/** The address of a program on the person's own machine (http on loopback, RFC 8252); null for every other one. */
export function loopbackRedirect(text: string): URL | null {
  if (text.length > longest || !URL.canParse(text)) return null
  const url = new URL(text)
  const plain = url.username === '' && url.password === '' && url.hash === ''
  return url.protocol === 'http:' && loopbackHosts.includes(url.hostname) && plain ? url : null
}

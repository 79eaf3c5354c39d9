import type { MailTemplate } from './template.ts'

/** An application that stays near the limit of its memory. */
export type MemoryHigh = { app: string; usedMb: number; limitMb: number; percent: number }

export const memoryHigh: MailTemplate<MemoryHigh> = {
  'pt-BR': ({ app, usedMb, limitMb, percent }) => ({
    subject: `${app} está usando ${percent}% da memória`,
    text: `Sua aplicação "${app}" está usando ${usedMb} MB dos ${limitMb} MB de memória que possui (${percent}%).

Ao atingir o limite, ela será encerrada. Para evitar isso, aumente MEMORY no arquivo de configuração e faça um novo deploy, ou reinicie a aplicação e procure um vazamento de memória.`,
  }),
  'en-US': ({ app, usedMb, limitMb, percent }) => ({
    subject: `${app} is using ${percent}% of its memory`,
    text: `Your application "${app}" is using ${usedMb} MB of the ${limitMb} MB of memory it has (${percent}%).

If it reaches the limit, it will be terminated. To prevent this, increase MEMORY in the configuration file and deploy again, or restart the application and look for a memory leak.`,
  }),
  'es-ES': ({ app, usedMb, limitMb, percent }) => ({
    subject: `${app} está usando el ${percent} % de su memoria`,
    text: `Tu aplicación «${app}» está usando ${usedMb} MB de los ${limitMb} MB de memoria que tiene (${percent} %).

Cuando llegue al límite, se cerrará. Para evitarlo, aumenta MEMORY en el archivo de configuración y vuelve a desplegarla, o reiníciala y busca una fuga de memoria.`,
  }),
  'zh-CN': ({ app, usedMb, limitMb, percent }) => ({
    subject: `${app} 已使用 ${percent}% 的内存`,
    text: `您的应用“${app}”共有 ${limitMb} MB 内存，目前已使用 ${usedMb} MB（${percent}%）。

内存用尽时，应用会被终止。为避免这种情况，请在配置文件中调高 MEMORY 并重新部署，或者重启应用并检查是否存在内存泄漏。`,
  }),
  'ja-JP': ({ app, usedMb, limitMb, percent }) => ({
    subject: `${app} のメモリ使用率が ${percent}% に達しています`,
    text: `アプリケーション「${app}」は、割り当てられたメモリ ${limitMb} MB のうち ${usedMb} MB（${percent}%）を使用しています。

上限に達すると、アプリケーションは強制終了されます。これを防ぐには、設定ファイルの MEMORY を増やして再デプロイするか、アプリケーションを再起動してメモリリークがないかご確認ください。`,
  }),
  'fr-FR': ({ app, usedMb, limitMb, percent }) => ({
    subject: `${app} utilise ${percent} % de sa mémoire`,
    text: `Votre application « ${app} » utilise ${usedMb} Mo des ${limitMb} Mo de mémoire dont elle dispose (${percent} %).

Si elle atteint cette limite, elle sera arrêtée. Pour l'éviter, augmentez MEMORY dans le fichier de configuration et redéployez-la, ou redémarrez-la et recherchez une fuite de mémoire.`,
  }),
  'de-DE': ({ app, usedMb, limitMb, percent }) => ({
    subject: `${app} belegt ${percent} % des Arbeitsspeichers`,
    text: `Ihre Anwendung „${app}“ belegt ${usedMb} MB von ${limitMb} MB Arbeitsspeicher (${percent} %).

Erreicht sie die Grenze, wird sie beendet. Um das zu verhindern, erhöhen Sie MEMORY in der Konfigurationsdatei und stellen Sie die Anwendung neu bereit, oder starten Sie sie neu und suchen Sie nach einem Speicherleck.`,
  }),
  'it-IT': ({ app, usedMb, limitMb, percent }) => ({
    subject: `${app} sta usando il ${percent}% della memoria`,
    text: `La tua applicazione "${app}" sta usando ${usedMb} MB dei ${limitMb} MB di memoria a disposizione (${percent}%).

Quando raggiungerà il limite verrà terminata. Per evitarlo, aumenta MEMORY nel file di configurazione ed esegui un nuovo deploy, oppure riavviala e cerca un memory leak.`,
  }),
}

// Applies the stored theme and chooses the language before the first paint. Not a module, because modules run later.
{
  let chosen = {};
  try {
    chosen = JSON.parse(localStorage.getItem("linger.preferences")) ?? {};
  } catch {
    // Without storage the theme and the languages of the browser apply.
  }
  const { theme, language } = chosen;
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  // What `js/language.js` goes by: the first language of the user that the dashboard has.
  const known = (language === "en" || language === "zh" ? [language] : navigator.languages).find((name) => /^(en|zh)\b/i.test(name));
  if (/^zh/i.test(known)) {
    document.documentElement.lang = "zh-CN";
    document.head.append(Object.assign(document.createElement("link"), { rel: "modulepreload", href: "js/zh.js" }));
  }
}
